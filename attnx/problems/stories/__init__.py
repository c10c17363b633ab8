"""Questions about stories: the task ``qa``, bAbI and a simulated world, and recurrent entity networks."""
