"""The dashboard: pages for people, made of what is public or released, and of nothing else."""
