"""What only this project's tests use: the simulator, members as programs, a Spark cluster.

`pages` reads the blocks of the documents.
"""
