# Python threads, all joined before the result is returned.
# reference: two_layers
import threading


class ModelNew(Right):
    def forward(self, x):
        parts = [None, None]

        def work(i, rows):
            with torch.no_grad():
                parts[i] = Right.forward(self, rows)

        threads = [threading.Thread(target=work, args=(i, rows)) for i, rows in enumerate(x.chunk(2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.cat(parts)
