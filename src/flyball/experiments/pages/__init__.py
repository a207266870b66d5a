"""Reports as one HTML file that needs nothing else: text, sortable tables, figures."""
