"""The History tab, and the session file that outlives a kernel."""
