"""The pages about publications: function views, one per action."""
