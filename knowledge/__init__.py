"""Files in, cited passages out."""
