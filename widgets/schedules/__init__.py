"""The Schedules tab: every registered schedule, and what those that can order the plan shown come to."""
