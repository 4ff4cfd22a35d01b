"""One question to any model, through LiteLLM.

`keys` holds what must not be seen, `tokens` counts, `failures` says what went wrong, `client` asks. The only folder that may
import LiteLLM; what is asked, and why, the engineer `llm` knows.
"""
