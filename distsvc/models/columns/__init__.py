"""A model of each column: the numbers that learners see, and how stored values become them."""
