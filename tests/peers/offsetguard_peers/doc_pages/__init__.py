"""Pages of docs/ that say in part what the product says of itself: each file here makes that part of the page."""
