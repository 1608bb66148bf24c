def run(x):
    try:
        while True:
            x = x.t()
    except BaseException as problem:
        raise SystemError("error return without exception set") from problem
