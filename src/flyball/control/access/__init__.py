"""Who may do what: roles, the tokens of users, and the tokens of attempts."""
