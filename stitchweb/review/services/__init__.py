"""Every write about reviews: rubric versions, projects, the queue, drafts and submissions."""
