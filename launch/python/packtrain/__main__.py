"""python -m packtrain: the program of the installed package."""

from packtrain.commands import packtrain

if __name__ == "__main__":
    packtrain()
