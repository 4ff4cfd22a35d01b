"""Training under verl: its configuration, the reward function that it calls, rows with a tool.

`ppo.yaml` overrides verl's own `ppo_trainer`; `keys.json` is what verl's schema has there, of the version that it names, and
`keys` checks the one against the other. What imports verl runs in its processes: `agents.training.learning.verl_tool`.
"""
