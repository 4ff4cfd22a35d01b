"""The site for programs: tokens, the REST API below /api/v1 with its description, and a client for the command line.

Whatever it answers goes through the access queries and services of the apps below; nothing here decides who may see what.
"""
