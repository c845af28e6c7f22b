"""Launching: the launcher's side: start `torchrun`, watch its ranks, end them, leave nothing behind."""
