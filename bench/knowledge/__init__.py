"""The labelled set of company files and questions, and what is measured on it."""
