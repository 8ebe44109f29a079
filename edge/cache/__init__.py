"""The semantic cache: the agent's answers, kept for those who ask the same under the same circumstances.

It stores and serves only what is beyond doubt. Whatever breaks in it is a miss, never an error to the user.
"""
