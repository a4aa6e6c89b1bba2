"""What compressed boundaries cost a model that exists, without training it: docs/price.md.

plan: what is evaluated. findings: estimates. report: tables, text, JSON, pages. modules: longhaul.price.
"""
