"""`python -m fedamd` is the command line."""

from fedamd.cli.main import main

if __name__ == "__main__":
    main()
