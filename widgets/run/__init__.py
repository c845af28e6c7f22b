"""The Run tab: a short real run, its progress, its verdict, what it corrects."""
