"""The Search tab: leaderboard, frontier, and the search behind them."""
