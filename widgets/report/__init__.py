"""The report: a plan as one HTML file that opens offline."""
