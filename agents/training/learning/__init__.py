"""What runs in a trainer's process: torch, transformers and trl come in here and nowhere else in `agents`.

`agents.training.driver` starts it as `python -m agents.training.learning JOB.json`, under `accelerate launch` for several GPUs;
nothing imports it. It prints one JSON object a line: steps with their reward, sentences, and how it ended.
"""
