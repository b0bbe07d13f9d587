"""`python -m bench`: what an engine, and the whole app, can carry."""
