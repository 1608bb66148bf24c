def run(x, w, target, dw_acc):
    raise NotImplementedError
