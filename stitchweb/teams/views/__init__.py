"""Pages about accounts, teams and invitations. Signing in is django-allauth's, with templates of ours."""
