"""What the site is made with beside its pages; Sphinx calls each module's `setup`."""
