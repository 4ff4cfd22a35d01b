"""The gallery of known cheats and of honest programs that look like them, put before the real Verifier. Comes in: the
contracts, hands and the command line; the programs themselves are data, read from a folder of the checkout."""
