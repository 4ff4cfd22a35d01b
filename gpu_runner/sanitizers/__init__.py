"""Sanitizers: the candidate built or run once more under tools that watch its memory, and what their reports mean.

`findings` holds the numbers and the rules over them, `reports` reads what the tools print, `run` builds and runs. What a tool
says was printed by the candidate's process and is untrusted: text that is read with patterns and cut, never executed or opened.
"""
