"""`restride demo-language`: a trained encoder finds what answers questions, checked and timed."""
