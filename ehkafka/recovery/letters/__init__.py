"""Dead letters: what they say, and how they reach a topic or a function before an offset moves."""
