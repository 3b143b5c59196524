"""Remove by age what a policy names: previewed and acknowledged first, listed in a manifest (STA-59 to STA-81)."""
