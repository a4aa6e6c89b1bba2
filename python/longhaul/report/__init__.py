"""What a record says, for people and programs: listings, a run's last screen, pages with figures."""
