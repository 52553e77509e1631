"""`restride demo-network`: three trained networks read the text in a photograph, checked and timed."""
