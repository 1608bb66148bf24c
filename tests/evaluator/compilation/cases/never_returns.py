def run(x):
    while True:
        try:
            x = x.t()
        except Exception:
            continue
