"""The reward service: batches of candidates in, a reward or a sentence why there is none out. Standard library, the hands and
`agents.reward`; no torch.

`contracts` is what is asked and answered, `measure` checks and times through the hands, `price` makes a reward of it, `raters`
are the judges, `server` and `client` speak HTTP, `process` starts and ends the service.
"""
