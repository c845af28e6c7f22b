"""The Run tab: a short real run, its progress, its verdict, and what it corrects."""
