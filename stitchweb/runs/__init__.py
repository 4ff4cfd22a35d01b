"""The loop's imperative shell: runs, their numbered events, the jobs given to runners, and the live stream of it all."""
