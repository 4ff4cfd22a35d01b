"""The hack gallery as pages: known cheats, honest programs, and what the Verifier made of them. Comes in: `gpu_runner.hacks`
and the highlighting of `runs`. It has no table of the database and runs nothing."""
