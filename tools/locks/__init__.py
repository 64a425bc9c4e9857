"""What is pinned: newer versions, known weaknesses, the list of parts."""
