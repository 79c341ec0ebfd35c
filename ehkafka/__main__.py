"""`python -m ehkafka` is the `ehkafka` command."""

from ehkafka.cli.__main__ import main

if __name__ == "__main__":
    main()
