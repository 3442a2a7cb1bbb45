"""Work on whole datasets: copying, comparing, verifying, measuring, recovering."""
