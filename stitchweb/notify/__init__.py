"""What happened, told to those whom it concerns: on a page, by mail, and to a team's web hooks.

It listens to the signals of the apps below, which know nothing of it. What is told is a row before it is sent.
"""
