def run(G, steps=5):
    raise NotImplementedError
