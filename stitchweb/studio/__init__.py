"""The pages about models: a team's providers and models, its prompts with a preview, and what a run asked its models.

Lies above the runs, whose data the previews show. What is stored about models is in `llm`.
"""
