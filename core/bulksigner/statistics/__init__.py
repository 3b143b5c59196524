"""How long jobs take: a row of stage timings for each completed job, and the figures made of them."""
