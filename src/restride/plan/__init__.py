"""Plans: loop nests, their rewrites, what they mean and how they are scheduled."""
