"""People and the teams that own everything: users, memberships with their roles, sign-in links."""
