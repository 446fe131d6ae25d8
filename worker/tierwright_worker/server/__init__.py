"""The worker's HTTP side: OpenAI's and Anthropic's APIs, metrics under vLLM's names, draining; knows no array.

app.py routes; errors.py and fields.py read what clients send and say what is wrong; openai_requests.py and
anthropic_requests.py make an `Asked` of it; prompting.py renders and tokenizes; generation.py runs it in the engine and turns
tokens into text; openai_answers.py and anthropic_answers.py shape what goes back; lifecycle.py serves until told to stop.
"""
