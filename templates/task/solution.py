def run(x, factor):
    raise NotImplementedError
